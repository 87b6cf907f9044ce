//! What happens to one packet: its delay, or its loss, drawn from a [`Profile`].
//!
//! The same rules as the simulator's `lab/sim/src/cloud/link.rs` (log-normal delay, path factors,
//! stragglers) and `lab/sim/src/link/weather.rs` (bursts), for all ordered pairs of a few hosts
//! and for an unlimited time. Those types number their nodes by the layers of a tree or are private
//! to the simulator's worlds, and the simulator stands on the whole exchange; so the rules are
//! written down again here. Real time decides which packet draws which number, so the platform's
//! `ln` and `exp` do.
//!
//! What a cloud is (factors, stragglers, when bursts come) follows from one seed, what single packets
//! draw from another: two models of one cloud may draw independently, which a check needs.

use types::SplitMix64;

use crate::profile::{Bursts, Profile};

/// Sigma of a burst's extra delay over bursts, as in the simulator.
const BURST_SIGMA: f64 = 0.5;

/// When the copies of a packet reach the receiver, in ns after its arrival at the relay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fate {
    /// Delay of the packet; `None` when it is lost.
    pub first_ns: Option<u64>,
    /// Delay of its duplicate, if there is one.
    pub second_ns: Option<u64>,
}

/// Episodes that come and go: both states last for an exponentially distributed time.
struct Episodes {
    rng: SplitMix64,
    every_ns: u64,
    length_ns: u64,
    extra_ns: u64,
    /// Median of `extra_ns` over episodes.
    extra_median_ns: u64,
    until: u64,
    next: u64,
}

impl Episodes {
    fn new(every_ns: u64, length_ns: u64, extra_median_ns: u64, seed: u64) -> Episodes {
        let mut rng = SplitMix64::new(seed);
        let next = exponential(every_ns, &mut rng);
        Episodes { rng, every_ns, length_ns, extra_ns: 0, extra_median_ns, until: 0, next }
    }

    fn bursts(bursts: &Bursts, seed: u64) -> Episodes {
        Episodes::new(bursts.every_ns, bursts.length_ns, bursts.extra_ns, seed)
    }

    /// What the episode that lasts at `at` adds, if one does. Times must not decrease.
    fn at(&mut self, at: u64) -> Option<u64> {
        while self.next <= at {
            self.until = self.next + exponential(self.length_ns, &mut self.rng);
            self.next = self.until + 1 + exponential(self.every_ns, &mut self.rng);
            self.extra_ns = log_normal(self.extra_median_ns as f64, BURST_SIGMA, &mut self.rng);
        }
        (at < self.until).then_some(self.extra_ns)
    }
}

struct Sender {
    /// When the copies so far have left.
    free_at: u64,
    /// Of a straggler that is slow for some time.
    slow: Option<Episodes>,
}

struct Path {
    /// Of the path, spatial spread.
    factor: f64,
    /// Added by zones and direction.
    added_ns: u64,
    bursts: Option<Episodes>,
}

/// The delays of all paths between some hosts.
pub struct Model {
    profile: Profile,
    senders: Vec<Sender>,
    /// From host times number of hosts plus to host.
    paths: Vec<Path>,
    draws: SplitMix64,
}

impl Model {
    /// A model of as many hosts as `zones` has entries, each the number of the host's zone. `seed`
    /// fixes the cloud, `draws` what single packets draw in it.
    pub fn new(profile: &Profile, zones: &[u8], seed: u64, draws: u64) -> Model {
        let hosts = zones.len();
        let mut rng = SplitMix64::new(SplitMix64::mix(seed) ^ 0xB0C5);
        let slow = stragglers(profile, hosts, &mut rng);
        let sender = |host: usize| {
            let seed = rng.next_u64();
            let straggles = profile.stragglers.filter(|_| slow.contains(&host));
            let episodes = |model: crate::Stragglers| match model.every_ns {
                0 => Episodes { until: u64::MAX, next: u64::MAX, ..Episodes::new(0, 0, 0, seed) },
                every_ns => Episodes::new(every_ns, model.length_ns, 0, seed),
            };
            Sender { free_at: 0, slow: straggles.map(episodes) }
        };
        let senders = (0..hosts).map(sender).collect();
        let path = |index: usize| {
            let (from, to) = (index / hosts, index % hosts);
            let zone_ns = if zones[from] == zones[to] { 0 } else { profile.zone_ns };
            let asymmetry_ns = if from < to { profile.asymmetry_ns } else { 0 };
            let seed = rng.next_u64();
            Path {
                factor: (profile.spatial_sigma * normal(&mut rng)).exp(),
                added_ns: zone_ns + asymmetry_ns,
                bursts: profile.bursts.map(|bursts| Episodes::bursts(&bursts, seed)),
            }
        };
        let paths = (0..hosts * hosts).map(path).collect();
        let draws = SplitMix64::new(SplitMix64::mix(draws) ^ 0xD2A3);
        Model { profile: profile.clone(), senders, paths, draws }
    }

    /// Number of hosts.
    pub fn hosts(&self) -> usize {
        self.senders.len()
    }

    /// Whether a host is a straggler, slow at the moment or not.
    pub fn is_straggler(&self, host: usize) -> bool {
        self.senders[host].slow.is_some()
    }

    /// Decides what happens to a packet that the sender hands over at `at` ns, where `loss_ppm` of a
    /// million are lost. Times must not decrease from call to call, or episodes that ended earlier are
    /// still seen.
    ///
    /// # Panics
    /// When there is no such host.
    pub fn fate(&mut self, from: usize, to: usize, at: u64, loss_ppm: u32) -> Fate {
        // A copy that is lost keeps the sender busy, too.
        let free_at = &mut self.senders[from].free_at;
        *free_at = (*free_at).max(at) + self.profile.copy_ns;
        let leaves_ns = *free_at - at;
        if self.draws.below(1_000_000) < u64::from(loss_ppm) {
            return Fate { first_ns: None, second_ns: None };
        }
        let first_ns = Some(leaves_ns + self.transit_ns(from, to, at));
        let twice = self.draws.below(1_000_000) < u64::from(self.profile.duplicate_ppm);
        let second_ns = twice.then(|| leaves_ns + self.transit_ns(from, to, at));
        Fate { first_ns, second_ns }
    }

    /// Delay of a packet that the sender hands over at `at` ns while it is idle.
    ///
    /// # Panics
    /// When there is no such host.
    pub fn idle_delay_ns(&mut self, from: usize, to: usize, at: u64) -> u64 {
        self.profile.copy_ns + self.transit_ns(from, to, at)
    }

    /// Time between leaving one host and arriving at the other.
    fn transit_ns(&mut self, from: usize, to: usize, at: u64) -> u64 {
        let mut is_slow = |host: usize| {
            self.senders[host].slow.as_mut().is_some_and(|slow| slow.at(at).is_some())
        };
        let slow = is_slow(from) | is_slow(to);
        let slowness = self.profile.stragglers.filter(|_| slow);
        let (factor, sigma) = slowness.map_or((1.0, self.profile.sigma), |s| (s.factor, s.sigma));
        let path = &mut self.paths[from * self.senders.len() + to];
        let jitter_ns = match self.profile.median_ns {
            0 => 0,
            median_ns => log_normal(median_ns as f64, sigma, &mut self.draws),
        };
        let scaled = (self.profile.base_ns + jitter_ns) as f64 * factor * path.factor;
        let burst_ns = path.bursts.as_mut().and_then(|bursts| bursts.at(at)).unwrap_or(0);
        scaled as u64 + path.added_ns + burst_ns
    }
}

/// The hosts that are stragglers: a share of them, at least one, never host 0.
fn stragglers(profile: &Profile, hosts: usize, rng: &mut SplitMix64) -> Vec<usize> {
    let Some(model) = profile.stragglers else { return Vec::new() };
    let mut others: Vec<usize> = (1..hosts).collect();
    let wanted = (hosts as u64 * u64::from(model.share_ppm) / 1_000_000).max(1) as usize;
    let mut chosen = Vec::new();
    while chosen.len() < wanted && !others.is_empty() {
        chosen.push(others.swap_remove(rng.below(others.len() as u64) as usize));
    }
    chosen
}

/// Strictly between 0 and 1.
fn open(rng: &mut SplitMix64) -> f64 {
    ((rng.next_u64() >> 12) as f64 + 0.5) / (1u64 << 52) as f64
}

/// A normally distributed number, by Box and Muller (1958).
fn normal(rng: &mut SplitMix64) -> f64 {
    let angle = std::f64::consts::TAU * open(rng);
    (-2.0 * open(rng).ln()).sqrt() * angle.cos()
}

fn log_normal(median: f64, sigma: f64, rng: &mut SplitMix64) -> u64 {
    (median * (sigma * normal(rng)).exp()) as u64
}

fn exponential(mean_ns: u64, rng: &mut SplitMix64) -> u64 {
    (-open(rng).ln() * mean_ns as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(profile: &Profile, hosts: usize) -> Model {
        let zones: Vec<u8> =
            (0..hosts).map(|host| (host % usize::from(profile.zones)) as u8).collect();
        Model::new(profile, &zones, 5, 6)
    }

    fn sorted_delays(model: &mut Model, count: u64) -> Vec<u64> {
        let mut delays: Vec<u64> =
            (0..count).map(|step| model.idle_delay_ns(0, 1, step * 200_000)).collect();
        delays.sort_unstable();
        delays
    }

    #[test]
    fn delays_have_the_published_quantiles() {
        let profile = Profile::table1();
        let delays = sorted_delays(&mut model(&profile, 4), 200_000);
        // Quantiles of the standard normal distribution.
        for (share, z) in [(0.01, -2.326_348), (0.25, -0.674_490), (0.5, 0.0), (0.99, 2.326_348)] {
            let expect = 13_380.0 + 15_600.0 * f64::exp(0.447 * z);
            let got = delays[(share * 200_000.0) as usize] as f64;
            assert!((got / expect - 1.0).abs() < 0.01, "{share}: {got} for {expect}");
        }
    }

    #[test]
    fn a_senders_copies_leave_one_after_another() {
        let profile = Profile { copy_ns: 1_000, ..Profile::clean() };
        let mut model = model(&profile, 3);
        let mut first = |to, at| model.fate(0, to, at, 0).first_ns;
        assert_eq!([first(1, 0), first(2, 0), first(1, 0)], [51_000, 52_000, 53_000].map(Some));
        assert_eq!(first(1, 2_500), Some(51_500), "the third copy leaves at 3,000");
        assert_eq!(first(1, 90_000), Some(51_000));
        assert_eq!(model.fate(1, 0, 90_000, 0).first_ns, Some(51_000), "another sender");
    }

    #[test]
    fn losses_and_duplicates_have_their_share() {
        let profile = Profile::lossy();
        let mut model = model(&profile, 2);
        let fates: Vec<Fate> =
            (0..200_000).map(|at| model.fate(0, 1, at * 5_000, profile.loss_ppm)).collect();
        let lost = fates.iter().filter(|fate| fate.first_ns.is_none()).count();
        let twice = fates.iter().filter(|fate| fate.second_ns.is_some()).count();
        assert!((1_800..2_200).contains(&lost), "{lost}");
        assert!((850..1_150).contains(&twice), "{twice}");
    }

    #[test]
    fn zones_and_directions_add_what_they_should() {
        let profile = Profile { zone_ns: 500, zones: 2, asymmetry_ns: 30, ..Profile::clean() };
        let mut model = model(&profile, 4);
        let mut delay = |from, to| model.idle_delay_ns(from, to, 0) - 50_000;
        assert_eq!([delay(0, 2), delay(2, 0), delay(0, 1), delay(1, 0)], [30, 0, 530, 500]);
    }

    #[test]
    fn stragglers_are_slow_for_half_of_the_time_and_bursts_are_rare() {
        let mut model = model(&Profile { median_ns: 0, ..Profile::straggler() }, 20);
        let slow: Vec<usize> = (0..20).filter(|host| model.is_straggler(*host)).collect();
        assert!(slow.len() == 2 && slow[0] > 0, "{slow:?}");
        let slowed = (0..100_000u64)
            .filter(|step| model.idle_delay_ns(0, slow[0], step * 10_000_000) > 20_000)
            .count();
        assert!((40_000..60_000).contains(&slowed), "{slowed}");
        let bursts = Bursts { every_ns: 9_000_000, length_ns: 1_000_000, extra_ns: 500_000 };
        let profile = Profile { bursts: Some(bursts), ..Profile::clean() };
        let mut model = self::model(&profile, 2);
        let hit = (0..100_000u64)
            .filter(|step| model.idle_delay_ns(0, 1, step * 10_000) > 60_000)
            .count();
        assert!((7_000..14_000).contains(&hit), "{hit}");
        let standard = self::model(&Profile::standard(), 5);
        assert_eq!((0..5).filter(|host| standard.is_straggler(*host)).count(), 1, "at least one");
    }

    #[test]
    fn two_models_of_one_cloud_differ_by_their_draws_only() {
        let zones = [0; 8];
        let profile = Profile { spatial_sigma: 0.3, median_ns: 0, ..Profile::table1() };
        let mut one = Model::new(&profile, &zones, 5, 6);
        let mut other = Model::new(&profile, &zones, 5, 7);
        let path = |model: &mut Model| (1..8).map(|to| model.idle_delay_ns(0, to, 0)).collect();
        let (left, right): (Vec<u64>, Vec<u64>) = (path(&mut one), path(&mut other));
        assert_eq!(left, right);
        assert_ne!(left[0], left[1]);
    }

    #[test]
    fn in_slow_motion_all_takes_so_many_times_as_long() {
        for name in Profile::NAMES {
            let profile = Profile::named(name).unwrap();
            let mut usual = model(&profile, 4);
            let mut slow = model(&profile.clone().slowed(50), 4);
            for at in 0..2_000 {
                let (from, to) = (at as usize % 4, (at as usize + 1) % 4);
                let at = at * 40_000_000;
                let (one, many) =
                    (usual.idle_delay_ns(from, to, at), slow.idle_delay_ns(from, to, at * 50));
                assert!(many.abs_diff(50 * one) <= 1_000, "{name}: {many} of {one} at {at}");
            }
        }
    }
}
