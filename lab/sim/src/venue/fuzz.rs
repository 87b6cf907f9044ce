//! A seed as a whole scenario: tree, links, weather, clocks and faults all drawn from it.
//!
//! Worlds are small and short so that many of them can be had; what matters is how much goes wrong
//! at the same time, not for how long.

use exchange::{OverlayOptions, Spread};
use overlay::membership::RollCallConfig;
use types::{Nanos, SplitMix64};

use super::{
    faults::{FaultKind, FaultSpec},
    leave::Departure,
    options,
    scenario::Scenario,
};
use crate::link::{Bursts, LinkModel, PathQueue, Weather};

/// Layers to choose from: (D, F, smallest and largest N).
const TREES: [(usize, usize, u64, u64); 5] =
    [(1, 16, 2, 6), (2, 2, 3, 6), (2, 3, 4, 9), (2, 4, 5, 8), (3, 2, 4, 7)];

/// Draws: whether, and how much.
pub(super) struct Dice(pub(super) SplitMix64);

impl Dice {
    pub(super) fn chance(&mut self, permille: u64) -> bool {
        self.0.below(1_000) < permille
    }

    pub(super) fn within(&mut self, from: u64, to: u64) -> u64 {
        from + self.0.below(to - from + 1)
    }

    /// Nothing in half of the cases, else up to `most`, small values more often.
    pub(super) fn some(&mut self, most: u64) -> u64 {
        if self.chance(500) {
            return 0;
        }
        let first = self.0.below(most + 1);
        self.0.below(first + 1)
    }
}

impl Scenario {
    /// The scenario of a seed of `fairbell-lab sim fuzz`.
    pub fn random(seed: u64) -> Scenario {
        let mut dice = Dice(SplitMix64::new(SplitMix64::mix(seed) ^ 0xF022));
        let (depth, fanout, least, most) = TREES[dice.0.below(TREES.len() as u64) as usize];
        let link = link(&mut dice);
        let orders = dice.within(50, 130);
        Scenario {
            depth,
            fanout,
            receivers: dice.within(least, most) as usize,
            hedge: dice.within(0, 2) as usize,
            participants: dice.within(2, 8) as u8,
            orders,
            rate_per_s: dice.within(150, 600),
            link,
            kill_every: 0,
            auctions_every: 2,
            specials_every: 3,
            faults: Some(faults(&mut dice)),
            weather: weather(&mut dice),
            stragglers: dice.some(4) as usize,
            straggler_permille: dice.within(1_200, 6_000),
            egress_ns: dice.within(0, 5_000),
            wrong_clocks_permille: dice.within(0, 1_000),
            options: planes(seed, options::random(seed, depth)),
            leaver: Departure::random(seed),
            command: "fairbell-lab sim fuzz".to_string(),
            ..Scenario::default()
        }
        .far_behind(seed)
        .replaced(seed)
        .replicated(seed)
        .overheard(seed)
    }

    /// In some of the seeds somebody eavesdrops, in all of those with several roots.
    fn overheard(mut self, seed: u64) -> Scenario {
        let mut dice = Dice(SplitMix64::new(SplitMix64::mix(seed) ^ 0xEA25));
        self.eavesdropper |= dice.chance(300);
        self
    }

    /// In some of the seeds proxies stand by and take the places of others.
    fn replaced(mut self, seed: u64) -> Scenario {
        let mut dice = Dice(SplitMix64::new(SplitMix64::mix(seed) ^ 0x5EA7));
        if !dice.chance(150) || self.depth < 2 || self.options.streams() > 1 {
            return self;
        }
        self.options.standby = dice.within(1, 2) as u16;
        self.options.roll_call.get_or_insert_default();
        let faults = self.faults.get_or_insert_default();
        for _ in 0..dice.within(1, 3) {
            faults.push(FaultSpec::any(FaultKind::ReplaceProxy));
        }
        self
    }

    /// In some of the seeds three roots serve in turn, and things happen to them.
    fn replicated(self, seed: u64) -> Scenario {
        let mut dice = Dice(SplitMix64::new(SplitMix64::mix(seed) ^ 0x7E9C));
        if !dice.chance(300) || self.options.standby > 0 {
            return self;
        }
        let command = self.command.clone();
        Scenario { command, ..self.with_replicas(seed) }
    }

    /// The same exchange with three roots that serve in turn, and two to six things that
    /// happen to them. Their retransmission servers keep what a failover commits at once: what a
    /// leader has not sent before it dies is nowhere else.
    pub fn with_replicas(mut self, seed: u64) -> Scenario {
        let mut dice = Dice(SplitMix64::new(SplitMix64::mix(seed) ^ 0x7E9D));
        self.replicas = 3;
        self.eavesdropper = true;
        self.store = None;
        if !self.command.contains("--replicas") && self.command.ends_with("fuzz") {
            self.command.push_str(" --replicas 3");
        }
        self.orders = dice.within(150, 350);
        self.rate_per_s = dice.within(100, 300);
        let faults = self.faults.get_or_insert_default();
        let kinds = FaultKind::OF_REPLICAS;
        for _ in 0..dice.within(2, 6) {
            faults.push(FaultSpec::any(kinds[dice.0.below(kinds.len() as u64) as usize]));
        }
        self
    }

    /// In some of the seeds the retransmission server keeps little, and some are further behind.
    fn far_behind(mut self, seed: u64) -> Scenario {
        let mut dice = Dice(SplitMix64::new(SplitMix64::mix(seed) ^ 0x5704E));
        if !dice.chance(250) {
            return self;
        }
        self.store = Some(dice.within(40, 100) as usize);
        self.orders = dice.within(200, 300);
        self.rate_per_s = self.rate_per_s.min(400);
        let kinds = [FaultKind::CutOff, FaultKind::RestartListener, FaultKind::RestartEdge];
        let faults = self.faults.get_or_insert_default();
        for _ in 0..dice.within(1, 3) {
            let kind = kinds[dice.0.below(kinds.len() as u64) as usize];
            faults.push(FaultSpec::any(kind));
        }
        self
    }

    /// The command that repeats `seed`.
    pub fn again(&self, seed: u64) -> String {
        format!("{} --seed {seed}", self.command)
    }
}

/// The options with planes of the tree, what they are used for, and copies of an order. Draws of its
/// own: they leave the others of a seed as they are.
fn planes(seed: u64, mut options: OverlayOptions) -> OverlayOptions {
    let mut dice = Dice(SplitMix64::new(SplitMix64::mix(seed) ^ 0x7EE5));
    if dice.chance(500) {
        options.hedging.planes = dice.within(2, 3) as u16;
        let own = |dice: &mut Dice| dice.chance(300).then(|| dice.0.below(2) as u16);
        if dice.chance(700) {
            options.spread = Spread::Symbols((0..3).map(|_| own(&mut dice)).collect());
        }
    }
    if dice.chance(250) {
        options.order_ways = dice.within(2, 3) as usize;
    }
    if dice.chance(250) && options.roll_call.is_none() {
        options.roll_call = Some(RollCallConfig::default());
    }
    options
}

fn link(dice: &mut Dice) -> LinkModel {
    LinkModel {
        base_ns: dice.within(1_000, 30_000),
        jitter_ns: dice.within(2_000, 40_000),
        jitter_sigma: dice.within(200, 800) as f64 / 1_000.0,
        loss_permille: dice.some(60) as u16,
        duplicate_permille: dice.some(60) as u16,
        reorder_permille: dice.some(120) as u16,
        reorder_ns: dice.within(100, 3_000) * Nanos::MICRO,
    }
}

fn weather(dice: &mut Dice) -> Weather {
    let bursts = Bursts {
        every_ns: dice.within(20, 300) * Nanos::MILLI,
        length_ns: dice.within(200, 8_000) * Nanos::MICRO,
        extra_ns: dice.within(50, 2_000) * Nanos::MICRO,
    };
    let queue = PathQueue {
        service_ns: dice.within(500, 20_000),
        limit_ns: dice.within(20, 1_000) * Nanos::MICRO,
    };
    Weather {
        spatial_sigma: dice.some(400) as f64 / 1_000.0,
        bursts: dice.chance(500).then_some(bursts),
        queue: dice.chance(400).then_some(queue),
    }
}

/// Up to six faults; at most one that cuts connections, so that a cut finds one to cut.
fn faults(dice: &mut Dice) -> Vec<FaultSpec> {
    let mut list = Vec::new();
    let mut cuts = 0;
    for _ in 0..dice.some(9).min(6) {
        // The last ones need somebody who stands by, or several roots.
        let drawn = FaultKind::ALL.len() - 1 - FaultKind::OF_REPLICAS.len();
        let kind = FaultKind::ALL[dice.0.below(drawn as u64) as usize];
        let cut = matches!(kind, FaultKind::CutConnection | FaultKind::CutAll);
        cuts += u64::from(cut);
        if !cut || cuts == 1 {
            list.push(FaultSpec::any(kind));
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_one_scenario_and_all_of_them_are_possible() {
        let mut kinds = vec![0; FaultKind::ALL.len()];
        let mut uses = [0; 4];
        for seed in 0..2_000 {
            let scenario = Scenario::random(seed);
            assert_eq!(scenario, Scenario::random(seed));
            assert!(scenario.config(seed).trees().is_ok(), "seed {seed}");
            let options = &scenario.options;
            uses[0] += u32::from(options.streams() > 1);
            uses[1] += u32::from(options.streams() == 1 && options.hedging.planes > 1);
            uses[2] += u32::from(options.order_ways > 1);
            uses[3] += u32::from(options.roll_call.is_some());
            for fault in scenario.faults.iter().flatten() {
                kinds[FaultKind::ALL.iter().position(|kind| *kind == fault.kind).unwrap()] += 1;
            }
        }
        assert!(kinds.iter().all(|count| *count >= 80), "{kinds:?}");
        assert!(uses.iter().all(|count| *count >= 200), "{uses:?}");
        assert_eq!(Scenario::random(3).again(3), "fairbell-lab sim fuzz --seed 3");
        assert!(FaultKind::ALL.iter().all(|kind| FaultKind::named(kind.name()) == Some(*kind)));
    }
}
